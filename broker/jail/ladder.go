package jail

// The ladder decides, purely, what a supervisor does next. The supervisor feeds
// it what happened and carries out the deeds it returns.

// phase is how far the ending of a command has come; it never goes back.
type phase uint8

const (
	running     phase = iota // the command runs
	terminating              // every process got SIGTERM, the grace runs
	killing                  // every process gets SIGKILL until none is left
	over                     // the supervisor may exit
)

// happening is what a supervisor can notice.
type happening uint8

const (
	mainExited  happening = iota // the process that was started has been reaped
	treeEmpty                    // no process of the command is left
	endAsked                     // the harness asks to end the command
	harnessGone                  // the control pipe ended
	graceOver                    // the grace after SIGTERM has passed
	sweepOver                    // the limit for killing has passed, processes are left
	nextRound                    // time to signal again
)

// deed is what the supervisor has to do.
type deed uint8

const (
	sendTerm deed = iota
	startGrace
	sendKill
	startSweep // start the limit for killing and the rounds
	tellExit   // report the exit to the harness
	leave      // exit
)

// ladder is the state of one supervision.
type ladder struct {
	phase       phase
	mainGone    bool // the command itself has ended
	interrupted bool // it was asked to end before it had ended
	deserted    bool // the harness is gone: nobody reads reports
	told        bool
}

// step is total: every happening is answered in every state.
func (l ladder) step(h happening) (ladder, []deed) {
	if l.phase == over {
		return l, nil
	}
	switch h {
	case mainExited:
		l.mainGone = true
		if l.phase == running {
			return l.kill()
		}
	case treeEmpty:
		l.phase, l.mainGone = over, true
		return l.tell(leave)
	case endAsked:
		if l.phase == running {
			l.phase, l.interrupted = terminating, true
			return l, []deed{sendTerm, startGrace}
		}
	case harnessGone:
		l.deserted = true
		if l.phase != killing {
			l.interrupted = l.interrupted || !l.mainGone
			return l.kill()
		}
		return l, []deed{sendKill}
	case graceOver:
		if l.phase == terminating {
			return l.kill()
		}
	case sweepOver:
		// The fence stays held until the last process is gone, so the supervisor
		// stays; only the harness need not wait.
		if l.phase == killing {
			return l.tell()
		}
	case nextRound:
		if l.phase == killing {
			return l, []deed{sendKill}
		}
	}
	return l, nil
}

func (l ladder) kill() (ladder, []deed) {
	l.phase = killing
	return l, []deed{sendKill, startSweep}
}

// tell reports once, and only to a harness that is there.
func (l ladder) tell(then ...deed) (ladder, []deed) {
	if l.told || l.deserted {
		return l, then
	}
	l.told = true
	return l, append([]deed{tellExit}, then...)
}
