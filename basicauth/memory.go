package basicauth

import (
	"container/list"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// A pair is a name, a hash and a password, as an HMAC under the key of a memory.
type pair [sha256.Size]byte

// A memory holds right pairs for a limited time and number. Passwords that were wrong are not in
// it, so nobody can fill it with them.
type memory struct {
	key  [32]byte
	age  time.Duration // negative: nothing is remembered
	most int

	mu     sync.Mutex
	users  *Users // of the latest request
	pairs  map[pair]*list.Element
	oldest *list.List // of entries, oldest first
}

type entry struct {
	pair  pair
	name  string
	until time.Time
}

func (m *memory) init(age time.Duration, most int) {
	rand.Read(m.key[:])
	m.age, m.most = age, most
	m.pairs, m.oldest = map[pair]*list.Element{}, list.New()
}

// pairOf returns the pair of name, hash and password. Each is preceded by its length, so that no
// two triples are one text.
func (m *memory) pairOf(name, hash string, password []byte) (p pair) {
	mac := hmac.New(sha256.New, m.key[:])
	for _, part := range [][]byte{[]byte(name), []byte(hash), password} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	mac.Sum(p[:0])
	return p
}

// use forgets the pairs of users whose hash is no longer the same, if the users have changed.
func (m *memory) use(users *Users) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users == users {
		return
	}
	for at := m.oldest.Front(); at != nil; {
		next := at.Next()
		if e := at.Value.(entry); m.users.hashes[e.name] != users.hashes[e.name] {
			m.forget(at)
		}
		at = next
	}
	m.users = users
}

// has reports whether p is remembered.
func (m *memory) has(p pair) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.pairs[p]
	if !ok {
		return false
	}
	if !time.Now().Before(at.Value.(entry).until) {
		m.forget(at)
		return false
	}
	return true
}

// add remembers a pair of the user, unless the users have changed since it was verified.
func (m *memory) add(p pair, name string, users *Users) {
	if m.age < 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users != users || m.pairs[p] != nil {
		return
	}
	now := time.Now()
	for at := m.oldest.Front(); at != nil && (len(m.pairs) >= m.most || !now.Before(at.Value.(entry).until)); at = m.oldest.Front() {
		m.forget(at)
	}
	m.pairs[p] = m.oldest.PushBack(entry{p, name, now.Add(m.age)})
}

func (m *memory) forget(at *list.Element) {
	delete(m.pairs, at.Value.(entry).pair)
	m.oldest.Remove(at)
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pairs)
}
