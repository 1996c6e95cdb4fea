# The package bcrypt, or passlib with that as its backend.
import sys

import bcrypt
from passlib.hash import bcrypt as passlib


def answer(action, what, password):
    if sys.argv[1] == "passlib":
        if action == "check":
            return "yes" if passlib.verify(password, what) else "no"
        return passlib.using(ident=what, rounds=4).hash(password)
    if action == "check":
        return "yes" if bcrypt.checkpw(password, what.encode()) else "no"
    return bcrypt.hashpw(password, b"$%b$04$abcdefghijklmnopqrstuu" % what.encode()).decode()


for line in sys.stdin:
    action, what, digits = line.split()
    try:
        print(answer(action, what, bytes.fromhex(digits[1:])))
    except (ValueError, RuntimeError):
        print("-")
