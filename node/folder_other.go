//go:build !unix

package node

// lockDir locks nothing here: folders cannot be locked.
func lockDir(string) (unlock func(), err error) { return func() {}, nil }

// syncDir has nothing to do: a rename is as durable as the system makes it.
func syncDir(string) error { return nil }
