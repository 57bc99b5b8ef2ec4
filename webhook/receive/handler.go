package receive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/consign-go/consign/webhook/internal/signature"
)

// Rejection is the error by which a function says a final no. See [Reject].
type Rejection struct{ Status int }

// Error returns "rejected with" and the status.
func (r *Rejection) Error() string { return "rejected with " + strconv.Itoa(r.Status) }

// Reject returns an error for a function that will never execute this delivery: the
// transaction is undone, the status is answered, and nothing is stored, so that the
// same delivery may be executed once it is mended. status is 400 to 499; anything
// else, and 408, 409, 425 and 429, which are no final no, becomes 400.
func Reject(status int) error {
	switch {
	case status < 400 || status > 499, status == 408, status == 409, status == 425, status == 429:
		status = http.StatusBadRequest
	}
	return &Rejection{Status: status}
}

// Handler executes each delivery once, in a transaction of its own that also holds
// the key and the answer. What it answers, and what package webhook makes of that:
//
//	what fn returned, with a proof             executed now, or earlier
//	503 with Retry-After                       nothing was executed: fn or the database failed; or the
//	                                           two clocks disagree by more than the tolerance
//	409                                        the same key is being executed
//	422                                        the key was executed with another body
//	what Reject said                           fn will not execute it
//	400, 401, 405, 413                         not a signed delivery of this sender
//	500                                        the commit was not confirmed: nobody knows
//
// The context of fn ends when the sender hangs up. A panic of fn is an error of fn.
// The answers without a proof have no body, so they tell a stranger nothing.
func (r *Receiver[TX]) Handler(fn func(ctx context.Context, tx TX, d Delivery) (Response, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.opt.MaxBody))
		if err != nil {
			r.refuse(w, "", err)
			return
		}
		d, err := r.Verify(req.Header, body)
		if err != nil {
			r.refuse(w, "", err)
			return
		}
		answer, err := r.execute(req.Context(), d, fn)
		if err != nil {
			r.refuse(w, d.Key, err)
			return
		}
		if proof := r.Proof(d); proof != "" {
			w.Header().Set(signature.HeaderProof, proof)
		}
		if answer.ContentType != "" {
			w.Header().Set("Content-Type", answer.ContentType)
		}
		w.WriteHeader(answer.Status)
		w.Write(answer.Body)
	})
}

// errUnconfirmed: the commit may have happened.
var errUnconfirmed = errors.New("the commit was not confirmed")

// execute runs one delivery in a transaction, or finds the answer of an earlier one.
func (r *Receiver[TX]) execute(ctx context.Context, d Delivery, fn func(ctx context.Context, tx TX, d Delivery) (Response, error)) (answer Response, err error) {
	if !r.enter(d.Key) {
		return Response{}, ErrInProgress
	}
	defer r.leave(d.Key)
	tx, err := r.store.begin(ctx)
	if err != nil {
		return Response{}, fault("begin", err)
	}
	done := false
	defer func() {
		if !done {
			r.store.rollback(context.WithoutCancel(ctx), tx)
		}
	}()
	was, err := r.Begin(ctx, tx, d)
	switch {
	case err != nil:
		return Response{}, err
	case was != nil:
		return *was, nil
	}
	if answer, err = contained(ctx, tx, d, fn); err != nil {
		return Response{}, &failed{err}
	}
	if err := answer.check(); err != nil {
		return Response{}, fault("finish", err)
	}
	if err := r.Finish(ctx, tx, d, answer); err != nil {
		return Response{}, err
	}
	done = true
	if err := r.store.commit(ctx, tx); err != nil {
		r.store.rollback(context.WithoutCancel(ctx), tx) // gives the connection back
		if refusedCommit(err) {
			return Response{}, fault("commit", err)
		}
		return Response{}, fmt.Errorf("%w: %w", errUnconfirmed, err)
	}
	return answer, nil
}

// failed is an error of fn. Only a [Rejection] in it decides about the answer: what
// else it wraps, such as an error of this package about another request, is not about
// this one.
type failed struct{ err error }

func (f *failed) Error() string { return f.err.Error() }

func (f *failed) Unwrap() error { return f.err }

// refusedCommit reports that the database answered the commit with a rollback, as it
// does for a deferred constraint and a serialization failure or deadlock (SQLSTATE
// class 23, 40001, 40P01): nothing was executed.
func refusedCommit(err error) bool {
	var told interface{ SQLState() string }
	if !errors.As(err, &told) {
		return false
	}
	state := told.SQLState()
	return strings.HasPrefix(state, "23") || state == "40001" || state == "40P01"
}

// contained turns a panic into an error. Its text names the type of the value only:
// the value may hold content.
func contained[TX any](ctx context.Context, tx TX, d Delivery, fn func(context.Context, TX, Delivery) (Response, error)) (answer Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: a value of type %T", v)
		}
	}()
	return fn(ctx, tx, d)
}

// refuse answers what was not executed.
func (r *Receiver[TX]) refuse(w http.ResponseWriter, key string, err error) {
	r.tell(key, err)
	status := http.StatusServiceUnavailable
	var large *http.MaxBytesError
	var rejected *Rejection
	var own *failed
	switch {
	case errors.As(err, &rejected):
		status = rejected.Status
	case errors.As(err, &own):
	case errors.Is(err, ErrHeaders):
		status = http.StatusBadRequest
	case errors.Is(err, ErrSignature):
		status = http.StatusUnauthorized
	case errors.Is(err, ErrInProgress):
		status = http.StatusConflict
	case errors.Is(err, ErrDigest):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, errUnconfirmed):
		status = http.StatusInternalServerError
	case errors.As(err, &large):
		status = http.StatusRequestEntityTooLarge
	}
	if status == http.StatusServiceUnavailable || status == http.StatusConflict {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((r.opt.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(status)
}

// tell contains a panic: the answer is due all the same.
func (r *Receiver[TX]) tell(key string, err error) {
	defer func() { _ = recover() }()
	if r.opt.OnError != nil {
		r.opt.OnError(key, err)
	}
}

func (r *Receiver[TX]) enter(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[key] {
		return false
	}
	r.busy[key] = true
	return true
}

func (r *Receiver[TX]) leave(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, key)
}
