// Bounds of the calls of a worker.
export const CALL_TIME = 15_000; // ms for a call's answer, in addition to the time that a claim is held
export const MOST_BYTES = 4 << 20; // of the reports, or checkpoints, of one call
