package plane

// Verdict is what a host does with a segment that it has partly shown. It is one
// of [Send], [Rest], [Nothing], [Replace], [Withhold], [Retract].
type Verdict interface{ verdict() }

// Send shows the whole text: nothing was shown.
type Send struct{ Text string }

// Rest shows a rest: what was shown is the start of the text.
type Rest struct{ Text string }

// Nothing leaves all as it is: the text was shown.
type Nothing struct{}

// Replace puts the text in the place of what was shown.
type Replace struct{ Text string }

// Withhold shows nothing more: what was shown is not the start of the text, and
// this host cannot take it back. Text is the authoritative one.
type Withhold struct{ Text string }

// Retract takes back what was shown, where a host can, and else says that it
// does not count.
type Retract struct{}

func (Send) verdict()     {}
func (Rest) verdict()     {}
func (Nothing) verdict()  {}
func (Replace) verdict()  {}
func (Withhold) verdict() {}
func (Retract) verdict()  {}
