package cli

import "github.com/spf13/cobra"

// Root is the tree of commands, for the documents made of it.
func Root() *cobra.Command { return (&app{}).root() }
