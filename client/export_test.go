package client

import "github.com/loom-run/loom/wire"

// Arms reports whether a kind has an arm, and Unarmed why it has none.
func Arms(k wire.Kind) bool { return arms[k] != nil }

func Unarmed(k wire.Kind) string { return unarmed[k] }
