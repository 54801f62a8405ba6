//go:build linux

package torture

import (
	"fmt"
	"os"
	"testing"

	"github.com/loom-run/loom/broker/jail"
)

func TestMain(m *testing.M) {
	jail.Enter()
	if text, ok := os.LookupEnv(lifeVariable); ok {
		os.Exit(live(text))
	}
	if text, ok := os.LookupEnv(strandsVariable); ok {
		os.Exit(liveStrands(text))
	}
	status := m.Run()
	if err := os.RemoveAll(built.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}
