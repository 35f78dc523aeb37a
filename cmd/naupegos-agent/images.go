package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"

	"github.com/naupegos/naupegos/internal/agent/imageserver"
	"github.com/naupegos/naupegos/internal/agent/registrycheck"
	"github.com/naupegos/naupegos/internal/fail"
)

// maxCheck limits the size of the request to check registries.
const maxCheck = 8 << 20

func (c *command) checkRegistries(ctx context.Context, args []string) error {
	if _, err := c.parse(flag.NewFlagSet("registries", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	var r registrycheck.Request
	if err := json.NewDecoder(io.LimitReader(c.in, maxCheck)).Decode(&r); err != nil {
		return fail.New(fail.Invalid, "the list of registries can't be read") // cause withheld: it may quote a secret
	}
	return c.answer(registrycheck.Check(ctx, r))
}

func (c *command) serveImages(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("images", flag.ContinueOnError)
	o := imageserver.Options{Log: slog.New(slog.NewTextHandler(c.err, nil))}
	f.StringVar(&o.Listen, "listen", "", "")
	f.StringVar(&o.Index, "index", "", "")
	f.StringVar(&o.Cert, "cert", "", "")
	f.StringVar(&o.Key, "key", "", "")
	f.StringVar(&o.CA, "ca", "", "")
	f.Func("group", "", func(s string) error { o.Groups = append(o.Groups, s); return nil })
	f.Func("blobs", "", func(s string) error { o.Blobs = append(o.Blobs, s); return nil })
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	if o.Listen == "" || o.Index == "" || o.Cert == "" || o.Key == "" || o.CA == "" || len(o.Groups) == 0 || len(o.Blobs) == 0 {
		return fail.New(fail.Invalid, "images needs --listen, --index, --blobs, --cert, --key, --ca and --group")
	}
	return imageserver.Run(ctx, o)
}
