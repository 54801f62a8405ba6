package remote

import "context"

// CheckLoopback dials an address the way a client does.
func CheckLoopback(c *Client, address string) error {
	conn, err := c.dialer.dial(context.Background(), "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}
