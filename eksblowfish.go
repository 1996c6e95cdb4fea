package bcrypt

import "encoding/binary"

// This file is EksBlowfish, the cipher of bcrypt: sections 4 and 5 of Provos and
// Mazières, "A Future-Adaptable Password Scheme" (USENIX 1999), over Blowfish as
// Schneier published it in 1994. It is one lane, in portable Go, and its names and
// formulas are the papers'. eksblowfish_lanes.go has the loop again, for several lanes.
//
// An iteration is one of bcrypt's 2^cost loops: ExpandKey with the key, then with
// the salt. A round is one of the 16 in a Blowfish block.

//go:generate go run ./internal/gen

const (
	maxPasswordLen = 72 // bytes: 18 subkeys of four bytes
	saltSize       = 16
	digestSize     = 23 // OpenBSD's bcrypt drops the last of the 24 bytes of ciphertext
)

// A state is what the key schedule rewrites, in the order in which it does: the 18 words
// of the P-array, which are the subkeys, and the four S-boxes; 4,168 bytes.
type state [18 + 4*256]uint32

// Where in a state the S-boxes begin.
const (
	box0 = 18 + 256*iota
	box1
	box2
	box3
)

// A lane is one hash on its way: the state, and the key and the salt, each repeated to
// the length of the P-array, which an iteration takes in turn. The zero lane holds no
// secret.
type lane struct {
	state
	keys [2][18]uint32
}

// A reading is how the bytes of a password become the words of a key. Four have
// been in use; all but the first are there to verify old hashes.
type reading byte

const (
	// plain is OpenBSD's since 1998: the password and a NUL, repeated.
	plain reading = iota

	// signExtended is what crypt_blowfish did before 1.1 where char is signed, and
	// what $2x$ means (CVE-2011-2483): a byte of 0x80 or more sets all the bits
	// above it in its word, over the bytes that came before.
	signExtended

	// unterminated is OpenBSD's of 1997, version $2$: no NUL, so that "ab" and "abab"
	// are the same key.
	unterminated

	// guarded is crypt_blowfish's $2a$ since 1.2, and so that of libxcrypt, PHP, Ruby
	// and Spring: plain, but for [ambiguous] passwords one bit of the state is flipped
	// before the salt is mixed in, so that they have a digest of their own.
	guarded
)

// keyWord returns word i, 0 to 17, of the key that a password is under a reading.
// Bytes after the 72nd are in no word.
func keyWord(password []byte, rd reading, i int) uint32 {
	period := len(password) + 1
	if rd == unterminated && len(password) > 0 {
		period = len(password)
	}
	var w uint32
	for j := 4 * i; j < 4*i+4; j++ {
		var b byte // the NUL
		if k := j % period; k < len(password) {
			b = password[k]
		}
		w <<= 8
		if rd == signExtended {
			w |= uint32(int32(int8(b)))
		} else {
			w |= uint32(b)
		}
	}
	return w
}

// ambiguous reports whether the plain and the guarded reading of password give two
// digests: a byte of 0x80 or more stands behind another in its word, and yet the
// sign-extended key is the plain key, which takes bytes 0xFF in front of it. No
// valid UTF-8 is ambiguous.
func ambiguous(password []byte) bool {
	var behind uint32
	for i := range 18 {
		w := keyWord(password, plain, i)
		if w != keyWord(password, signExtended, i) {
			return false
		}
		behind |= w & 0x00808080
	}
	return behind != 0
}

// setup is EksBlowfishSetup up to its loop. It keeps neither the password nor the salt.
func (n *lane) setup(password []byte, salt *[saltSize]byte, rd reading) {
	for i := range 18 {
		n.keys[0][i] = keyWord(password, rd, i)
		n.keys[1][i] = binary.BigEndian.Uint32(salt[i%4*4:])
	}
	n.start(rd)
}

// start is setup with the keys that are there: state = InitState(), then
// ExpandKey(state, salt, key).
func (n *lane) start(rd reading) {
	n.state = initialState
	n.mix(&n.keys[0])
	if rd == guarded {
		n.state[0] ^= 1 << 16
	}
	n.expandSalt(&n.keys[1])
}

// iterate is one of the 2^cost iterations of EksBlowfishSetup.
func (n *lane) iterate() {
	n.expandKey(&n.keys[0])
	n.expandKey(&n.keys[1])
}

// digest encrypts "OrpheanBeholderScryDoubt" 64 times, in ECB mode, with the state
// that the iterations have made.
func (n *lane) digest() (digest [digestSize]byte) {
	var out [24]byte
	text := [6]uint32{0x4f727068, 0x65616e42, 0x65686f6c, 0x64657253, 0x63727944, 0x6f756274}
	for i := 0; i < len(text); i += 2 {
		block := text[i : i+2]
		for range 64 {
			n.encipher(block, block[0], block[1])
		}
		binary.BigEndian.PutUint32(out[4*i:], block[0])
		binary.BigEndian.PutUint32(out[4*i+4:], block[1])
	}
	return [digestSize]byte(out[:digestSize])
}

// wipe overwrites the key, the salt and the state that both can be computed from.
func (n *lane) wipe() {
	*n = lane{}
}

// round is round i, 1 to 16, of a Blowfish block: it returns R xor P[i] xor F(L).
//
// A round waits for the one before it, so its time is the latency of the chain from
// l to the result: a shift, a byte extension, a load, and four additions and xors.
// That P[i] is xored into r in a statement of its own keeps it off the chain (in Go
// + and ^ go from left to right). That all of a round is one small function lets it
// be inlined, and orders the machine code: the compiler sorts a block by source
// position, and with only F in a function it loads all of P first and spills it.
func (s *state) round(i int, l, r uint32) uint32 {
	r ^= s[i]
	return r ^ (((s[box0+int(l>>24)] + s[box1+int(byte(l>>16))]) ^ s[box2+int(byte(l>>8))]) + s[box3+int(byte(l))])
}

// encipher encrypts the block (l, r), stores the ciphertext in dst[0] and dst[1],
// encrypts that into the next two words, and so on to the end of dst, which has an
// even length and may be part of s. It returns the last ciphertext.
//
// The rounds are written out, and the loop over blocks is inside: a loop over the
// rounds costs 15 %, a call for each block 1 %.
func (s *state) encipher(dst []uint32, l, r uint32) (uint32, uint32) {
	for ; len(dst) >= 2; dst = dst[2:] {
		l ^= s[0]
		r = s.round(1, l, r)
		l = s.round(2, r, l)
		r = s.round(3, l, r)
		l = s.round(4, r, l)
		r = s.round(5, l, r)
		l = s.round(6, r, l)
		r = s.round(7, l, r)
		l = s.round(8, r, l)
		r = s.round(9, l, r)
		l = s.round(10, r, l)
		r = s.round(11, l, r)
		l = s.round(12, r, l)
		r = s.round(13, l, r)
		l = s.round(14, r, l)
		r = s.round(15, l, r)
		l = s.round(16, r, l)
		l, r = r^s[17], l
		dst[0], dst[1] = l, r
	}
	return l, r
}

// mix xors a key into the P-array.
func (s *state) mix(key *[18]uint32) {
	for i, w := range key {
		s[i] ^= w
	}
}

// expandKey is ExpandKey(state, 0, key): it mixes in the key, then replaces the whole
// state with a chain of ciphertexts that starts from the zero block: 521 blocks.
func (s *state) expandKey(key *[18]uint32) {
	s.mix(key)
	s.encipher(s[:], 0, 0)
}

// expandSalt is the rest of ExpandKey(state, salt, key) once the key is mixed in: the
// chain of expandKey, but each block is xored with the next eight bytes of the salt
// before it is encrypted.
func (s *state) expandSalt(salt *[18]uint32) {
	var l, r uint32
	for i := 0; i < len(s); i += 2 {
		l, r = s.encipher(s[i:i+2], l^salt[i%4], r^salt[i%4+1])
	}
}
