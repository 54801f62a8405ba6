//go:build !unix

package tools

// openNonblock is nothing where files cannot be pipes.
const openNonblock = 0
