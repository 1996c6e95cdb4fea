<?php
// Answers each line, "make FORM xHEX" or "check FORM HASH xHEX", with a hash, yes or no. The
// formulas are those of WordPress 6.8 (wp_hash_password, wp_check_password) and of Nextcloud
// (OC\Security\Hasher).
function key_of($form, $password) {
    return $form === 'wordpress' ? base64_encode(hash_hmac('sha384', trim($password), 'wp-sha384', true)) : $password;
}
$prefixes = ['wordpress' => '$wp', 'nextcloud' => '1|'];
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', trim($line));
    $form = $words[1];
    $password = key_of($form, hex2bin(substr(end($words), 1)));
    if (strpos($password, "\0") !== false) {
        echo "-\n"; // password_hash refuses NUL
    } elseif ($words[0] === 'make') {
        echo $prefixes[$form] . password_hash($password, PASSWORD_BCRYPT, ['cost' => 4]) . "\n";
    } else {
        echo password_verify($password, substr($words[2], strlen($prefixes[$form]))) ? "yes\n" : "no\n";
    }
}
