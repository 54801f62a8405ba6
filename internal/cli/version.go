package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/loom-run/loom/host/print"
)

// version is set when a release is built.
var version = "dev"

func userAgent() string { return "loom/" + version }

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			out := &page{w: a.sys.Stdout}
			out.text(fmt.Sprintf("loom %s%s (%s %s/%s)", version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
			if out.err != nil {
				a.status = print.OutputLost
			}
			return nil
		},
	}
}

// revision is the commit that the binary was built from, if that is known.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return " " + s.Value[:min(len(s.Value), 12)]
		}
	}
	return ""
}
