package bcrypt

import "encoding/binary"

// This file is EksBlowfish, the cipher of bcrypt: sections 4 and 5 of Provos and
// Mazières, "A Future-Adaptable Password Scheme" (USENIX 1999), over Blowfish as
// Schneier published it in 1994. It is one lane, in portable Go. Its names and formulas
// are those of the papers. eksblowfish_lanes.go repeats the loop for several lanes.
//
// An iteration is one of bcrypt's 2^cost loops: ExpandKey with the key, then with
// the salt. A round is one of the 16 in a Blowfish block.

//go:generate go run ./internal/gen

// The cost is the base-2 logarithm of the number of iterations.
const (
	MinCost     int = 4  // the lowest cost of a hash; too fast to protect a password
	MaxCost     int = 31 // the highest; a hash takes a day and more
	DefaultCost int = 10 // what GenerateFromPassword uses for a cost below MinCost
)

// iterations returns 2^cost. At cost 31 that does not fit in an int of 32 bits.
func iterations(cost int) uint64 {
	return 1 << cost
}

const (
	maxPasswordLen = 72 // bytes: 18 subkeys of four bytes
	saltSize       = 16
	digestSize     = 23 // OpenBSD's bcrypt drops the last of the 24 bytes of ciphertext
)

// A state is what the key schedule rewrites, in this order: the P-array, which is the 18
// subkeys, then the four S-boxes. It has 4,168 bytes.
type state [18 + 4*256]uint32

// Where in a state the S-boxes begin.
const (
	box0 = 18 + 256*iota
	box1
	box2
	box3
)

// A lane is one hash in progress: its state, its key and its salt. Key and salt are each
// repeated to the length of the P-array; an iteration uses one, then the other. The zero
// lane holds no secret.
type lane struct {
	state
	keys [2][18]uint32
}

// A reading is how the bytes of a password become the words of a key. Four have been in
// use. All but the first exist only to verify old hashes.
type reading byte

const (
	// plain is OpenBSD's since 1998: the password and a NUL, repeated.
	plain reading = iota

	// signExtended is crypt_blowfish's before 1.1, where char is signed, and the meaning
	// of $2x$ (CVE-2011-2483). A byte of 0x80 or more sets all bits above it in its word,
	// and so overwrites the bytes before it.
	signExtended

	// unterminated is OpenBSD's of 1997, version $2$. It has no NUL, so "ab" and "abab"
	// are the same key.
	unterminated

	// guarded is crypt_blowfish's $2a$ since 1.2, also in libxcrypt, PHP, Ruby and Spring.
	// It is plain, but for [ambiguous] passwords it flips one bit of the state before the
	// salt is mixed in. Such a password then has a digest of its own.
	guarded
)

// keyWord returns word i, 0 to 17, of the key that a reading makes of a password. Bytes
// after the 72nd are in no word.
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
// digests: the sign-extended key equals the plain key, although a byte of 0x80 or more
// follows another in its word. That takes bytes 0xFF before it, so no valid UTF-8 is
// ambiguous.
func ambiguous(password []byte) bool {
	var high uint32 // the top bits of all bytes but the first of a word
	for i := range 18 {
		w := keyWord(password, plain, i)
		if w != keyWord(password, signExtended, i) {
			return false
		}
		high |= w & 0x00808080
	}
	return high != 0
}

// setup is EksBlowfishSetup up to its loop. It keeps neither password nor salt: their
// words are copied into the lane.
func (n *lane) setup(password []byte, salt *[saltSize]byte, rd reading) {
	for i := range 18 {
		n.keys[0][i] = keyWord(password, rd, i)
		n.keys[1][i] = binary.BigEndian.Uint32(salt[i%4*4:])
	}
	n.start(rd)
}

// start is setup with the key and salt that the lane has: state = InitState(), then
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

// digest encrypts "OrpheanBeholderScryDoubt" 64 times in ECB mode, with the state that the
// iterations have made: the loop of the paper's figure 3.
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

// wipe overwrites the key, the salt, and the state, which gives both away.
func (n *lane) wipe() {
	*n = lane{}
}

// round is round i, 1 to 16, of a Blowfish block: it returns R xor P[i] xor F(L).
//
// A round waits for the one before it. Its time is the latency of the chain from l to the
// result: a shift, a byte extension, a load, and four additions and xors. P[i] is xored
// into r in a statement of its own, which keeps it off the chain (in Go, + and ^ go from
// left to right). A round is one small function so that it is inlined, and so that the
// machine code keeps its order: the compiler sorts a block by source position, and with
// only F in a function it loads all of P first and spills it.
func (s *state) round(i int, l, r uint32) uint32 {
	r ^= s[i]
	return r ^ (((s[box0+int(l>>24)] + s[box1+int(byte(l>>16))]) ^ s[box2+int(byte(l>>8))]) + s[box3+int(byte(l))])
}

// encipher encrypts the block (l, r) into dst[0] and dst[1], encrypts that ciphertext into
// the next two words, and so on to the end of dst. The length of dst is even; dst may be
// part of s. encipher returns the last ciphertext.
//
// The rounds are written out because a loop over them costs 15 %. The loop over blocks is
// inside because a call for each block costs 1 %.
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

// expandKey is ExpandKey(state, 0, key). It mixes in the key, then replaces the whole state
// with a chain of 521 ciphertexts that starts from the zero block.
func (s *state) expandKey(key *[18]uint32) {
	s.mix(key)
	s.encipher(s[:], 0, 0)
}

// expandSalt is ExpandKey(state, salt, key) after the key is mixed in. It is the chain of
// expandKey, but each block is xored with the next eight bytes of the salt before it is
// encrypted.
func (s *state) expandSalt(salt *[18]uint32) {
	var l, r uint32
	for i := 0; i < len(s); i += 2 {
		l, r = s.encipher(s[i:i+2], l^salt[i%4], r^salt[i%4+1])
	}
}
