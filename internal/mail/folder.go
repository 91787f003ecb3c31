package mail

import (
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"os"
	"path/filepath"
)

// folder writes each message to a file of its own, <job id>.eml, and replaces that of an earlier attempt.
type folder struct{ dir string }

var nobody = &netmail.Address{Name: "tierq", Address: "tierq@localhost"}

// Send writes the file, readable by this user only. On an error no new file exists.
func (f *folder) Send(ctx context.Context, m Message) (Delivery, error) {
	if ctx.Err() != nil {
		return Delivery{}, fmt.Errorf("write mail: %w", context.Cause(ctx))
	}
	text, id, err := compose(m, nobody)
	if err != nil {
		return Delivery{}, err
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return Delivery{}, fmt.Errorf("write mail: %w", err)
	}
	if err := write(f.dir, string(m.ID)+".eml", text); err != nil {
		return Delivery{}, fmt.Errorf("write mail: %w", err)
	}
	return Delivery{MessageID: id, Accepted: m.To}, nil
}

// Describe says that mail stays on this machine.
func (f *folder) Describe() string {
	return "written to " + f.dir + " as .eml files; TIERQ_SMTP_URL sends it"
}

func write(dir, name string, text []byte) error {
	file, err := os.CreateTemp(dir, "."+name+".*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails after a success, because the file was renamed
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, name))
}
