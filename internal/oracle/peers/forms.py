# Answers each line, "make FORM xHEX" or "check FORM HASH xHEX", with a hash, yes or no, or "-" if
# the library does not take the password. Usage: forms.py passlib|django
import sys

name = sys.argv[1]
if name == "passlib":
    from passlib.hash import bcrypt_sha256, django_bcrypt, django_bcrypt_sha256, ldap_bcrypt

    handlers = {
        "ldap": ldap_bcrypt.using(rounds=4),
        "django": django_bcrypt.using(rounds=4),
        "django-sha256": django_bcrypt_sha256.using(rounds=4),
        "bcrypt-sha256-v1": bcrypt_sha256.using(version=1, rounds=4),
        "bcrypt-sha256": bcrypt_sha256.using(version=2, rounds=4),
    }

    def make(form, password):
        return handlers[form].hash(password)

    def check(form, password, text):
        return handlers[form].verify(password, text)
else:
    from django.conf import settings

    settings.configure(PASSWORD_HASHERS=[
        "django.contrib.auth.hashers.BCryptPasswordHasher",
        "django.contrib.auth.hashers.BCryptSHA256PasswordHasher",
    ])
    from django.contrib.auth.hashers import BCryptPasswordHasher, BCryptSHA256PasswordHasher

    BCryptPasswordHasher.rounds = BCryptSHA256PasswordHasher.rounds = 4
    handlers = {"django": BCryptPasswordHasher(), "django-sha256": BCryptSHA256PasswordHasher()}

    def make(form, password):
        return handlers[form].encode(password.decode(), handlers[form].salt())

    def check(form, password, text):
        return handlers[form].verify(password.decode(), text)

for line in sys.stdin:
    task, form, *rest = line.split()
    password = bytes.fromhex(rest[-1][1:])
    try:
        if task == "make":
            print(make(form, password))
        else:
            print("yes" if check(form, password, rest[0]) else "no")
    except (ValueError, UnicodeDecodeError):  # NUL, or not UTF-8
        print("-")
