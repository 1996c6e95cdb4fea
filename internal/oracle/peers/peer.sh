#!/usr/bin/env bash
# Apache's htpasswd, or PostgreSQL's pgcrypto in the database that BCRYPT_PGCRYPTO names,
# whose encoding is SQL_ASCII so that it takes every byte.
set -euo pipefail

htpasswd_answer() {
	local file answer
	if [ "$1" = check ]; then
		file=$(mktemp)
		printf 'user:%s\n' "$2" >"$file"
		if printf "$(sed 's/../\\x&/g' <<<"$3")\\n" | htpasswd -vi "$file" user >/dev/null 2>&1; then echo yes; else echo no; fi
		rm "$file"
	elif [ "$2" = 2y ]; then
		answer=$(printf "$(sed 's/../\\x&/g' <<<"$3")\\n" | htpasswd -niBC 4 user | head -1)
		echo "${answer#user:}"
	else
		echo -
	fi
}

pgcrypto_answer() {
	local password="convert_from(decode('$3', 'hex'), 'SQL_ASCII')"
	if [ "$1" = check ]; then
		psql -qAtX "$BCRYPT_PGCRYPTO" -c "SELECT CASE WHEN crypt($password, '$2') = '$2' THEN 'yes' ELSE 'no' END" 2>/dev/null || echo -
	elif [ "$2" = 2a ]; then
		psql -qAtX "$BCRYPT_PGCRYPTO" -c "SELECT crypt($password, gen_salt('bf', 4))"
	else # for a version that it does not know crypt makes a DES hash of it
		psql -qAtX "$BCRYPT_PGCRYPTO" -c "SELECT crypt($password, '\$$2\$04\$abcdefghijklmnopqrstuu')" 2>/dev/null | grep -E '^.{60}$' || echo -
	fi
}

while read -r action what hex; do
	"${1}_answer" "$action" "$what" "${hex:1}"
done
