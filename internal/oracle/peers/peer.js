// The npm package that the argument names: bcryptjs, bcrypt or @node-rs/bcrypt.
const name = process.argv[2];
const bcrypt = require(name);

function answer(action, what, bytes) {
  let password = bytes;
  if (name === "bcryptjs") {
    password = bytes.toString("utf8"); // it takes strings alone
    if (!Buffer.from(password, "utf8").equals(bytes)) return "-";
  }
  if (action === "check") {
    const verify = bcrypt.verifySync || bcrypt.compareSync;
    return verify(password, what) ? "yes" : "no";
  }
  const hash = name === "@node-rs/bcrypt"
    ? bcrypt.hashSync(password, 4)
    : bcrypt.hashSync(password, `$${what}$04$abcdefghijklmnopqrstuu`);
  return hash.startsWith(`$${what}$`) ? hash : "-";
}

require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const [action, what, hex] = line.split(" ");
  let result;
  try {
    result = answer(action, what, Buffer.from(hex.slice(1), "hex"));
  } catch {
    result = "-";
  }
  console.log(result);
});
