package testkit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readFrame returns the raw bytes of one whole RESP value (RESP2 or RESP3), or of one inline command.
func readFrame(r *bufio.Reader) ([]byte, error) { return appendFrame(nil, r) }

func appendFrame(frame []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err // a value that was cut off does not count
	}
	frame = append(frame, line...)
	values := 0
	switch line[0] {
	case '$', '=', '!': // a length, then that many bytes
		n, err := length(line)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			return frame, nil
		}
		at := len(frame)
		frame = append(frame, make([]byte, n+2)...)
		_, err = io.ReadFull(r, frame[at:])
		return frame, err
	case '*', '~', '>':
		values, err = length(line)
	case '%':
		values, err = length(line)
		values *= 2
	case '|': // an attribute stands before the value it describes
		values, err = length(line)
		values = values*2 + 1
	}
	if err != nil {
		return nil, err
	}
	for range values { // a null array has length -1: no values
		if frame, err = appendFrame(frame, r); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

func length(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil {
		return 0, fmt.Errorf("read RESP: %w", err)
	}
	return n, nil
}

// words returns the arguments of a request's frame.
func words(frame []byte) []string {
	if frame[0] != '*' {
		return strings.Fields(string(frame))
	}
	var args []string
	_, rest, _ := bytes.Cut(frame, []byte("\r\n"))
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, []byte("\r\n"))
		n, err := strconv.Atoi(string(bytes.TrimPrefix(line, []byte("$"))))
		if err != nil || n < 0 || n+2 > len(after) {
			return args
		}
		args = append(args, string(after[:n]))
		rest = after[n+2:]
	}
	return args
}
