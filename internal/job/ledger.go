package job

// StateError is an ErrWrongState that names the job's state. Its text may be shown to users.
type StateError struct {
	Status Status // as shown to users; "" = not known
	Reason string
}

func (e *StateError) Error() string {
	if e.Status == "" {
		return e.Reason
	}
	return "the job is " + string(e.Status) + ": " + e.Reason
}

// Unwrap makes errors.Is(err, ErrWrongState) true.
func (e *StateError) Unwrap() error { return ErrWrongState }
