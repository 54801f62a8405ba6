// Package forged tries to make what only package plane makes. It is planted for a test:
// each line that is marked must not compile.
package forged

import (
	"github.com/loom-run/loom/client/plane"
	"github.com/loom-run/loom/core/id"
	"github.com/loom-run/loom/sdkmsg"
)

// mine has methods of the names that the sums are sealed by.
type mine struct{}

func (mine) Valid() bool { return true }
func (mine) output()     {}
func (mine) event()      {}
func (mine) verdict()    {}
func (mine) ending()     {}

var (
	_ = plane.Proof{session: id.SessionID{1}}                    // refused
	_ = plane.Proof{id.SessionID{1}, "main", "main", ""}         // refused
	_ = plane.Transcript{message: sdkmsg.User{}}                 // refused
	_ = plane.Chrome{event: plane.Cleared{}}                     // refused
	_ = plane.Show(mine{}, plane.Cleared{})                      // refused
	_ = plane.Show(plane.Proof{}, plane.Cleared{}).proof.session // refused

	_ plane.Output  = mine{} // refused
	_ plane.Event   = mine{} // refused
	_ plane.Verdict = mine{} // refused
	_ plane.Ending  = mine{} // refused

	_ = plane.Proof{}                              // compiles, and proves nothing
	_ = plane.Show(plane.Proof{}, plane.Cleared{}) // compiles, and is not valid
)
