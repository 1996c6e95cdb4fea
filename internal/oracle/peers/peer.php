<?php // PHP: password_hash and password_verify; crypt for the versions that the first does not write.
while (($line = fgets(STDIN)) !== false) {
    [$do, $what, $hex] = explode(" ", trim($line));
    $password = hex2bin(substr($hex, 1));
    if ($do == "check") {
        echo password_verify($password, $what) ? "yes\n" : "no\n";
    } elseif ($what == "2y") {
        echo password_hash($password, PASSWORD_BCRYPT, ["cost" => 4]), "\n";
    } else {
        $hash = crypt($password, "\$$what\$04\$abcdefghijklmnopqrstuu");
        echo strlen($hash) == 60 ? "$hash\n" : "-\n";
    }
}
