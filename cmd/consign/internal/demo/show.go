package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/consign-go/consign/console"
)

// show lets a person look at what the tour has left, in the web console.
func (d *desk) show(ctx context.Context, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/console/", http.StripPrefix("/console", d.pages))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	link, err := d.pages.SignInLink("http://"+listener.Addr().String()+"/console", console.Identity{Name: "visitor", Role: console.Admin})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	fmt.Fprintf(out, "\nLook at it in the console (the link works once): %s\nInterrupt to end.\n", link)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
