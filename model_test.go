package bcrypt

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// This file is a second bcrypt, slow and straight from the papers. It shares no code with the
// package: not the tables, not the rounds, not the base64.

// modelBlowfish is Blowfish as in Schneier's paper, with P and S in one array.
type modelBlowfish struct {
	words [18 + 4*256]uint32
}

// modelPi is the fraction of π by Størmer's formula of 1896, π = 24 arctan(1/8) + 8 arctan(1/57)
// + 4 arctan(1/239). The generator uses Machin's.
var modelPi = func() (words [18 + 4*256]uint32) {
	const bits = uint(32*(18+4*256) + 128)
	one := new(big.Int).Lsh(big.NewInt(1), bits)
	arctan := func(x int64) *big.Int {
		sum, power := new(big.Int), new(big.Int).Quo(one, big.NewInt(x))
		for k := int64(1); power.Sign() != 0; k += 2 {
			sum.Add(sum, new(big.Int).Quo(power, big.NewInt(k)))
			power.Quo(power, big.NewInt(-x*x))
		}
		return sum
	}
	pi := new(big.Int)
	for _, term := range [][2]int64{{24, 8}, {8, 57}, {4, 239}} {
		pi.Add(pi, new(big.Int).Mul(big.NewInt(term[0]), arctan(term[1])))
	}
	pi.Sub(pi, new(big.Int).Mul(big.NewInt(3), one))
	digits := fmt.Sprintf("%0*x", bits/4, pi)
	for i := range words {
		fmt.Sscanf(digits[8*i:8*i+8], "%x", &words[i])
	}
	return words
}()

// encrypt is the Feistel network as the paper draws it: sixteen equal rounds, each with a swap,
// and the last swap undone.
func (b *modelBlowfish) encrypt(block uint64) uint64 {
	xL, xR := uint32(block>>32), uint32(block)
	for i := range 16 {
		xL ^= b.words[i]
		s := func(box int, x uint32) uint32 { return b.words[18+256*box+int(x%256)] }
		f := s(0, xL>>24) + s(1, xL>>16)
		f ^= s(2, xL>>8)
		f += s(3, xL)
		xR ^= f
		xL, xR = xR, xL
	}
	xL, xR = xR, xL
	return uint64(xL^b.words[17])<<32 | uint64(xR^b.words[16])
}

// expandKey is ExpandKey(state, salt, key) of the paper's section 4.
func (b *modelBlowfish) expandKey(salt [2]uint64, key [18]uint32) {
	for i, k := range key {
		b.words[i] ^= k
	}
	var block uint64
	for i := 0; i < len(b.words); i += 2 {
		block = b.encrypt(block ^ salt[i/2%2])
		b.words[i], b.words[i+1] = uint32(block>>32), uint32(block)
	}
}

// modelKey returns the key of a password as the version's authors read it.
func modelKey(version string, password []byte) (key [18]uint32) {
	bytes := append([]byte{}, password...)
	if version != "2" || len(password) == 0 {
		bytes = append(bytes, 0)
	}
	for i := range 72 {
		b := int32(uint32(bytes[i%len(bytes)]))
		if version == "2x" && b > 127 {
			b -= 256
		}
		key[i/4] = key[i/4]<<8 | uint32(b)
	}
	return key
}

// modelHash is figures 2 and 3 of the paper.
func modelHash(version string, cost int, salt [16]byte, password []byte) string {
	key := modelKey(version, password)
	saltBlocks := [2]uint64{binary.BigEndian.Uint64(salt[:8]), binary.BigEndian.Uint64(salt[8:])}
	var saltKey [18]uint32
	for i := range saltKey {
		saltKey[i] = binary.BigEndian.Uint32(salt[4*(i%4):])
	}

	b := modelBlowfish{modelPi}
	b.expandKey(saltBlocks, key)
	for range 1 << cost {
		b.expandKey([2]uint64{}, key)
		b.expandKey([2]uint64{}, saltKey)
	}
	var ciphertext []byte
	for text := []byte("OrpheanBeholderScryDoubt"); len(text) > 0; text = text[8:] {
		block := binary.BigEndian.Uint64(text)
		for range 64 {
			block = b.encrypt(block)
		}
		ciphertext = binary.BigEndian.AppendUint64(ciphertext, block)
	}

	encoding := base64.NewEncoding("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789").WithPadding(base64.NoPadding)
	return fmt.Sprintf("$%s$%02d$%s%s", version, cost,
		encoding.EncodeToString(salt[:]), encoding.EncodeToString(ciphertext[:23]))
}

// hashAlone is bcrypt with the package's own core, past the scheduler.
func hashAlone(password []byte, salt *[saltSize]byte, cost int, rd reading) [digestSize]byte {
	var n lane
	n.setup(password, salt, rd)
	for range iterations(cost) {
		n.iterate()
	}
	return n.digest()
}

// The generated tables are the digits of π.
func TestTables(t *testing.T) {
	require.Equal(t, modelPi, [18 + 4*256]uint32(initialState))
}

// The package and the model make the same hashes, for random passwords of every length
// and in all versions.
func TestModel(t *testing.T) {
	random := rand.NewChaCha8([32]byte{})
	for length := range 80 {
		for _, v := range []Version{Version2b, Version2a, Version2y, Version2x, Version2} {
			password := make([]byte, length)
			random.Read(password)
			h := record{version: v, cost: 4}
			random.Read(h.salt[:])
			h.digest = hashAlone(password, &h.salt, h.cost, v.reading())
			require.Equal(t, modelHash(v.String(), 4, h.salt, password), string(h.appendTo(nil)), "password %x", password)
		}
	}
	h := record{version: Version2b, cost: 7}
	h.digest = hashAlone([]byte("password"), &h.salt, h.cost, plain)
	require.Equal(t, modelHash("2b", 7, h.salt, []byte("password")), string(h.appendTo(nil)))
}
