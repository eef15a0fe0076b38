package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long scripts wait for something that must come.
const patience = 30 * time.Second

// scriptCommands are what the scripts in testdata use beside testscript's own
// commands.
func scriptCommands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"await":      await,
		"capture":    capture,
		"effects":    effects,
		"errline":    errline,
		"eventually": eventually,
		"fails":      fails,
		"gone":       gone,
		"isjson":     isJSON,
		"page":       page,
		"post":       post,
	}
}

// await VAR FILE REGEXP waits until the file has a match, and sets VAR to its
// first group. It logs how long that took.
func await(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: await VAR FILE REGEXP")
	}
	pattern := mustCompile(ts, args[2])
	began := time.Now()
	var text []byte
	poll(ts, func() bool {
		text, _ = os.ReadFile(ts.MkAbs(args[1])) // it may not be there yet
		match := pattern.FindSubmatch(text)
		if match == nil {
			return false
		}
		ts.Setenv(args[0], string(match[1]))
		return true
	}, func() string { return args[1] + " does not come to match " + args[2] + ":\n" + string(text) })
	ts.Logf("after %s", time.Since(began).Round(10*time.Millisecond))
}

// capture VAR REGEXP sets VAR to the first group of a match in the last
// command's standard output.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: capture VAR REGEXP")
	}
	match := mustCompile(ts, args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if match == nil {
		ts.Fatalf("no match for %s in the output", args[1])
	}
	ts.Setenv(args[0], match[1])
}

// effects URL N wants a simulated provider to hold N effects.
func effects(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: effects URL N")
	}
	client := &http.Client{Timeout: patience}
	resp, err := client.Get(args[0] + "/_fake/effects")
	ts.Check(err)
	defer resp.Body.Close()
	var held struct {
		Count int `json:"count"`
	}
	ts.Check(json.NewDecoder(resp.Body).Decode(&held))
	if strconv.Itoa(held.Count) != args[1] {
		ts.Fatalf("the provider holds %d effects, want %s", held.Count, args[1])
	}
}

// errline CODE REGEXP PROGRAM ARG... wants the program to end with the exit
// code, with one line on standard error that matches and is not gRPC's, and
// with nothing on standard output.
func errline(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: errline CODE REGEXP PROGRAM ARG...")
	}
	pattern := mustCompile(ts, args[1])
	code := 0
	var failed *exec.ExitError
	switch err := ts.Exec(args[2], args[3:]...); {
	case errors.As(err, &failed):
		code = failed.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
	checkErrorLine(func(format string, a ...any) { ts.Fatalf(format, a...) }, ts.ReadFile("stdout"), ts.ReadFile("stderr"), pattern)
}

// checkErrorLine fails unless the output is one good line of error.
func checkErrorLine(fatalf func(format string, a ...any), stdout, stderr string, want *regexp.Regexp) {
	switch {
	case stdout != "":
		fatalf("standard output of a command that failed: %s", stdout)
	case strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "onceward: "):
		fatalf("want one line that begins with \"onceward: \", got: %q", stderr)
	case strings.Contains(stderr, "rpc error") || strings.Contains(stderr, "desc ="):
		fatalf("the words of gRPC: %s", stderr)
	case !want.MatchString(stderr):
		fatalf("want a match for %s, got: %s", want, stderr)
	}
}

// eventually REGEXP PROGRAM ARG... runs the program until it succeeds and its
// standard output matches.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP PROGRAM ARG...")
	}
	pattern := mustCompile(ts, args[0])
	poll(ts, func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout"))
	}, func() string { return "no output matches " + args[0] })
}

// fails PROGRAM ARG... runs the program until it fails.
func fails(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: fails PROGRAM ARG...")
	}
	poll(ts, func() bool { return ts.Exec(args[0], args[1:]...) != nil },
		func() string { return args[0] + " goes on succeeding" })
}

// gone PID waits until a process has ended.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: gone PID")
	}
	pid, err := strconv.Atoi(args[0])
	ts.Check(err)
	poll(ts, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) },
		func() string { return "process " + args[0] + " still runs" })
}

// isjson wants standard output to be JSON documents whose names are those of
// the proto files.
func isJSON(ts *testscript.TestScript, _ bool, _ []string) {
	camelCase := regexp.MustCompile(`"[a-z]+[A-Z]\w*":`)
	documents := 0
	for dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout"))); ; documents++ {
		var document json.RawMessage
		err := dec.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		ts.Check(err)
		if name := camelCase.Find(document); name != nil {
			ts.Fatalf("%s is not a name of the proto files", name)
		}
	}
	if documents == 0 {
		ts.Fatalf("no JSON")
	}
}

// page STATUS REGEXP URL [TOKEN] waits until a page answers with this status and a
// body that matches.
func page(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 && len(args) != 4 {
		ts.Fatalf("usage: page STATUS REGEXP URL [TOKEN]")
	}
	pattern := mustCompile(ts, args[1])
	client := &http.Client{Timeout: patience}
	var seen string
	poll(ts, func() bool {
		req, err := http.NewRequest(http.MethodGet, args[2], nil)
		ts.Check(err)
		if len(args) == 4 {
			req.Header.Set("Authorization", "Bearer "+args[3])
		}
		resp, err := client.Do(req)
		if err != nil {
			seen = err.Error()
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		ts.Check(err)
		seen = resp.Status + "\n" + string(body)
		return strconv.Itoa(resp.StatusCode) == args[0] && pattern.Match(body)
	}, func() string { return args[2] + " answers " + seen })
}

// post URL BODY posts and wants a 2xx; negated, another answer.
func post(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: post URL BODY")
	}
	client := &http.Client{Timeout: patience}
	resp, err := client.Post(args[0], "application/json", bytes.NewReader([]byte(args[1])))
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if (resp.StatusCode/100 != 2) != neg {
		ts.Fatalf("%s: %s", resp.Status, body)
	}
}

func mustCompile(ts *testscript.TestScript, pattern string) *regexp.Regexp {
	compiled, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	return compiled
}

func poll(ts *testscript.TestScript, done func() bool, seen func() string) {
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			ts.Fatalf("waited %s in vain: %s", patience, seen())
		case <-tick.C:
		}
	}
}
