package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// maxPrompt bounds a prompt, in bytes: more than any model reads at once. A prompt is
// held about ten times on its way into the session, and is sent again with each
// later request of it.
const maxPrompt = 16 << 20

var (
	errNoPrompt       = errors.New("there is no prompt: give it as an argument or on standard input")
	errPromptTooLarge = fmt.Errorf("the prompt is larger than %d MiB; nothing was started, put the text into a file and name it in the prompt", maxPrompt>>20)
)

// prompt puts the arguments and standard input together.
func (a *app) prompt(ctx context.Context, args []string) (string, error) {
	piped, err := a.piped(ctx)
	if err != nil {
		return "", err
	}
	prompt := strings.Join(args, " ")
	switch {
	case strings.TrimSpace(piped) == "":
	case strings.TrimSpace(prompt) == "":
		prompt = piped
	default:
		prompt += "\n\n" + piped
	}
	prompt = strings.TrimRight(prompt, "\r\n")
	if strings.TrimSpace(prompt) == "" {
		return "", errNoPrompt
	}
	if valid := strings.ToValidUTF8(prompt, "\uFFFD"); valid != prompt {
		a.note("the prompt is not UTF-8 everywhere; U+FFFD stands for what is not")
		prompt = valid
	}
	if len(prompt) > maxPrompt {
		return "", errPromptTooLarge
	}
	return prompt, nil
}

// inputPatience is how long standard input may say nothing before a person is told
// what is waited for.
const inputPatience = 2 * time.Second

// piped reads standard input to its end where it holds text: a pipe, a socket, a
// file. A terminal and the null device have none to append.
func (a *app) piped(ctx context.Context) (string, error) {
	if a.sys.Stdin == nil {
		return "", nil
	}
	st, err := a.sys.Stdin.Stat()
	if err != nil {
		return "", nil //nolint:nilerr // a closed standard input has no text
	}
	if m := st.Mode(); !m.IsRegular() && m&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return "", nil
	}
	type outcome struct {
		text string
		err  error
	}
	read := make(chan outcome, 1) // a read cannot be ended: who leaves does not wait for it
	go func() {
		var b strings.Builder
		b.Grow(int(min(max(st.Size(), 0), maxPrompt) + 1))
		_, err := io.Copy(&b, io.LimitReader(a.sys.Stdin, maxPrompt+1))
		read <- outcome{b.String(), err}
	}()
	late := time.NewTimer(inputPatience)
	defer late.Stop()
	for {
		select {
		case got := <-read:
			switch {
			case got.err != nil:
				return "", fmt.Errorf("standard input cannot be read (%w); nothing was started", got.err)
			case len(got.text) > maxPrompt:
				return "", errPromptTooLarge
			}
			return got.text, nil
		case <-late.C:
			a.note("waiting for standard input to end, because it is appended to the prompt; without any, start with </dev/null")
		case <-ctx.Done():
			return "", errInterrupted
		}
	}
}
