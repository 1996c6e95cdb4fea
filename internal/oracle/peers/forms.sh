#!/usr/bin/env bash
# Answers each line, "make FORM xHEX" or "check FORM HASH xHEX", with a hash, yes or no, or "-" if
# the program does not take the password. Usage: forms.sh dovecot|postgres
while read -r task form rest; do
	hex=${rest##*x}
	hash=${rest% *}
	case $hex in *00*) # an argument of a program holds no NUL
		for ((i = 0; i < ${#hex}; i += 2)); do [ "${hex:i:2}" = 00 ] && echo - && continue 2; done ;;
	esac
	password=$(printf '%b' "$(sed 's/../\\x&/g' <<<"$hex")x")
	password=${password%x} # which keeps newlines at the end
	case $1-$task-$form in
	# doveadm asks for an empty password.
	dovecot-*) [ -n "$password" ] || { echo -; continue; } ;;&
	dovecot-make-dovecot) doveadm pw -s BLF-CRYPT -r 4 -p "$password" ;;
	dovecot-make-dovecot-b64) doveadm pw -s BLF-CRYPT.b64 -r 4 -p "$password" ;;
	dovecot-make-dovecot-hex) doveadm pw -s BLF-CRYPT.hex -r 4 -p "$password" ;;
	dovecot-make-ldap) doveadm pw -s CRYPT -r 4 -p "$password" ;;
	dovecot-check-*) doveadm pw -t "$hash" -p "$password" >/dev/null 2>&1 && echo yes || echo no ;;
	esac
done
