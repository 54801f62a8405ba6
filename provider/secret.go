package provider

import (
	"fmt"
	"strings"
)

// Secret is a key that prints as nothing but a placeholder, in any format and inside any struct. The zero Secret is an absent key.
type Secret struct {
	// A closure, because fmt prints the unexported fields of an enclosing struct without asking their methods.
	reveal func() string
}

const redacted = "[redacted]"

// NewSecret wraps a key. Space around it, as a file read into a variable leaves it, is not part of the key.
func NewSecret(key string) Secret {
	if key = strings.TrimSpace(key); key == "" {
		return Secret{}
	}
	return Secret{reveal: func() string { return key }}
}

// Present reports whether there is a key.
func (s Secret) Present() bool { return s.reveal != nil }

// Reveal returns the key, for the one header that carries it.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// Scrub removes the key from text.
func (s Secret) Scrub(text string) string {
	if s.reveal == nil {
		return text
	}
	return strings.ReplaceAll(text, s.reveal(), redacted)
}

// Format prints the placeholder for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText writes the placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
