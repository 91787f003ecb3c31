package job

// StateError is an ErrWrongState that says which state it was. Its text may be shown to users.
type StateError struct {
	Status Status // as it is shown; "" = only that it is another one
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
