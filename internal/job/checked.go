package job

// Checked adds a check of a type's payload at submit, for what the payload cannot know by itself (Validate). check returns a
// *PayloadError (or several, joined) that names the fields. It is not asked again when the job runs.
func Checked[In any](check func(In) error) TypeOption {
	return func(e *entry) {
		fits := e.check
		e.check = func(payload []byte) error {
			if err := fits(payload); err != nil {
				return err
			}
			var in In
			if err := decodeChecked(payload, &in); err != nil {
				return err
			}
			return check(in)
		}
	}
}
