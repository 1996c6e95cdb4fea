# Perl's crypt, which is the system's: libxcrypt.
use strict;
$| = 1;
while (<STDIN>) {
    my ($action, $what, $hex) = split;
    my $password = pack "H*", substr $hex, 1;
    my $hash = crypt $password, $action eq "check" ? $what : "\$$what\$04\$abcdefghijklmnopqrstuu";
    if ($action eq "check") { print $hash eq $what ? "yes\n" : "no\n" }
    else { print length $hash == 60 ? "$hash\n" : "-\n" }
}
