module github.com/loom-run/loom/internal/oracle

go 1.26.0

require (
	github.com/gofrs/uuid/v5 v5.5.1
	github.com/loom-run/loom v0.0.0
	github.com/ugorji/go/codec v1.3.2
	pgregory.net/rapid v1.3.0
)

require (
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
)

replace github.com/loom-run/loom => ../..
