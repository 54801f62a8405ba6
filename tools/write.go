package tools

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/loom-run/loom/core/jsonv"
	"github.com/loom-run/loom/policy"
)

//go:embed write.md
var writeDescription string

const writeName = "write"

func (k toolkit) write() Tool {
	return Tool{
		Name: writeName, Description: writeDescription, Class: policy.Write, Replay: Never, Scheduling: Exclusive,
		Schema: schema(`{"type":"object","properties":{
			"path":{"type":"string","description":"File to write, relative to the workspace or absolute inside it."},
			"content":{"type":"string","description":"The whole content of the file."}},
			"required":["path","content"],"additionalProperties":false}`),
		Run: func(_ context.Context, in Invocation) Outcome { return k.runWrite(in.Arguments) },
	}
}

type writeArguments struct{ path, content string }

func writeArgumentsOf(v jsonv.Value) (writeArguments, *arguments) {
	a := argumentsOf(v, "path", "content")
	return writeArguments{path: a.str("path"), content: a.str("content")}, a
}

func (k toolkit) runWrite(v jsonv.Value) Outcome {
	args, a := writeArgumentsOf(v)
	if out, bad := a.err(); bad {
		return out
	}
	at, err := k.room.resolveForWriting(args.path)
	if err != nil {
		return failed(err.Error())
	}
	was, err := k.room.existing(at)
	if err != nil {
		return failed(err.Error())
	}
	var before holding
	if was != nil {
		if before, err = k.room.holds(at); err != nil {
			return failed(err.Error())
		}
	}
	change := k.changing(at, before, []byte(args.content))
	if err := k.room.replace(at, []byte(args.content), was); err != nil {
		return failed(err.Error())
	}
	text := fmt.Sprintf("wrote %s to %s", count(len(args.content), "byte"), at.shown)
	if was == nil {
		text += ", a new file"
	} else {
		text += fmt.Sprintf(", replacing %d", was.Size())
	}
	return said(text).with(append([]jsonv.Member{
		jsonv.F("path", jsonv.Str(at.shown)), jsonv.F("bytes", jsonv.Num(int64(len(args.content)))), jsonv.F("created", jsonv.Boolean(was == nil)),
	}, change.details()...)...)
}
