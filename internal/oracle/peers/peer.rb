# The gem bcrypt.
require "bcrypt"
STDOUT.sync = true
STDIN.each_line do |line|
  action, what, hex = line.split
  password = [hex[1..]].pack("H*")
  begin
    if action == "check"
      puts BCrypt::Password.new(what) == password ? "yes" : "no"
    else
      puts BCrypt::Engine.hash_secret(password, "$#{what}$04$abcdefghijklmnopqrstuu") || "-"
    end
  rescue BCrypt::Errors::InvalidSalt, BCrypt::Errors::InvalidHash
    puts "-"
  end
end
