package webhook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// exchange is one request on one connection and its answer.
type exchange struct {
	endpoint *Endpoint
	wire     *wire
	before   int64     // bytes on the connection before the request
	due      time.Time // when the answer's header section must be there
	taken    int       // bytes of the request that the connection took
	early    bool      // the answer came before the body was sent
	whole    bool      // the answer was read to its end, and the connection is as it was
	note     string
}

// post is the request of every answer: it tells the parser which answers have a
// body.
var post = &http.Request{Method: http.MethodPost}

// run sends the request and reads the answer's header section, and its body up to
// the cap. On an error nothing is known of the answer.
func (x *exchange) run(ctx context.Context, r *request) (*http.Response, error) {
	o := &x.endpoint.opt
	w := x.wire
	stop := context.AfterFunc(ctx, w.interrupt)
	defer func() { x.whole = stop() && x.whole }() // else the interruption may still come
	x.before = w.counted.n
	w.limit.left, w.limit.err = o.MaxHeader, nil
	x.due = time.Now().Add(o.HeaderTimeout)
	w.until(x.due)
	resp, err := x.send(r)
	if err == nil && resp == nil {
		resp, err = x.answer()
	}
	if err != nil {
		return nil, err
	}
	x.readBody(resp)
	return resp, nil
}

// send writes the request. It returns the answer where one came before the whole
// request was written.
func (x *exchange) send(r *request) (*http.Response, error) {
	head := x.endpoint.head(r)
	if r.ask {
		if err := x.write(head); err != nil {
			return x.salvage(err)
		}
		if resp, err := x.asked(); resp != nil || err != nil {
			x.early = true
			return resp, err
		}
		head = nil
	}
	if err := x.write(append(head, r.body...)); err != nil {
		return x.salvage(err)
	}
	return nil, nil
}

func (x *exchange) write(p []byte) error {
	n, err := x.wire.conn.Write(p)
	x.taken += n
	return err
}

// untouched reports that the connection took nothing of the request, neither in
// clear nor, under TLS, as part of a record.
func (x *exchange) untouched() bool { return x.taken == 0 && x.wire.counted.n == x.before }

// salvage looks for an answer on a connection that would not take the request:
// a receiver that does not want a body may have said why before it hung up.
func (x *exchange) salvage(cause error) (*http.Response, error) {
	if x.untouched() {
		return nil, cause
	}
	x.early = true
	x.wire.until(time.Now().Add(250 * time.Millisecond))
	resp, err := x.answer()
	if err != nil {
		return nil, cause
	}
	return resp, nil
}

// answered waits until then for a sign of an answer to the header section.
func (x *exchange) answered(then time.Time) bool {
	w := x.wire
	w.until(then)
	_, err := w.answers.Peek(1)
	w.until(x.due)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		w.limit.err = nil // it was only asked
		return false
	}
	return true
}

// asked waits for leave to send the body, for as long as the endpoint allows and no
// longer because of other interim answers. It returns a final answer, or neither an
// answer nor an error where the body is to be sent.
func (x *exchange) asked() (*http.Response, error) {
	then := time.Now().Add(x.endpoint.opt.ContinueTimeout)
	if then.After(x.due) {
		then = x.due
	}
	for x.answered(then) {
		resp, err := x.read()
		if err != nil || final(resp) {
			return resp, err
		}
		if resp.StatusCode == http.StatusContinue {
			break
		}
	}
	return nil, nil
}

// final tells an answer from an interim one.
func final(resp *http.Response) bool {
	return resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols
}

// answer reads on until the final answer.
func (x *exchange) answer() (*http.Response, error) {
	for {
		resp, err := x.read()
		if err != nil || final(resp) {
			return resp, err
		}
	}
}

// read reads one header section.
func (x *exchange) read() (*http.Response, error) {
	resp, err := http.ReadResponse(x.wire.answers, post)
	switch cause := x.wire.limit.err; {
	case err == nil && resp.ProtoMajor == 1:
		return resp, nil
	case err != nil && cause != nil:
		// The parser takes the end of the input for the end of a line, and complains
		// about the line.
		return nil, cause
	}
	return nil, errNotHTTP // the parser's own text quotes what came
}

// readBody reads the answer's body, up to the cap, and forgets it.
func (x *exchange) readBody(resp *http.Response) {
	o, w := &x.endpoint.opt, x.wire
	defer resp.Body.Close()
	w.until(time.Now().Add(o.BodyTimeout))
	w.limit.left = 2*o.MaxBody + 4096 // chunks have a frame
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, int64(o.MaxBody)+1))
	if err != nil || n > int64(o.MaxBody) {
		x.note = NoteBody
		return
	}
	x.whole = !x.early && !resp.Close && resp.ProtoAtLeast(1, 1) && !parting(resp.StatusCode) && w.answers.Buffered() == 0
}

// parting reports a status after which the connection is of no more use: it waited
// for too long, leads to the wrong server, or speaks something else now.
func parting(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusSwitchingProtocols:
		return true
	}
	return false
}
