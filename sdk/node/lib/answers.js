// Reads the answers to claims, which may hold anything.
import { baseOf, isAmount, isObject, notUnderstood, parsed } from './call.js';

const isText = (value) => typeof value === 'string' && value !== '';

// Returns the jobs of an answer that can be run, one for each lease, and how many others there are.
function jobsOf(answer) {
  const jobs = new Map();
  for (const job of answer.jobs) {
    if (isReadable(job) && !jobs.has(job.lease)) jobs.set(job.lease, job);
  }
  return { jobs: [...jobs.values()], unreadable: answer.jobs.length - jobs.size };
}

// Reads the answer to a claim, of which the text and the times came. base is the time from which the durations count.
export function claimedOf({ text, sent, received }) {
  const answer = parsed('claim', text);
  if (!isObject(answer) || !Array.isArray(answer.jobs)) throw notUnderstood('claim');
  return { answer, base: baseOf(answer, sent, received), ...jobsOf(answer) };
}

function isReadable(job) {
  return isObject(job) && isText(job.lease) && isText(job.jobId) && isText(job.type) &&
    isAmount(job.leaseForMs) && isAmount(job.heartbeatEveryMs) && isAmount(job.endsInMs);
}
