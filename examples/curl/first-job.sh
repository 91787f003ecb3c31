#!/bin/sh
# Declares a queue, submits a job of a type of your own, claims it, completes it, and shows what a poll answers.
set -eu

T=${TIERQ_URL:-http://localhost:8080}; J='Content-Type: application/json'
curl -s $T/api/worker/claim -H "$J" -d '{"worker":"sh-1","queues":["pictures"]}'                # declares the queue
curl -s $T/paid/submit -H "$J" -d '{"type":"RESIZE","queue":"pictures","payload":{"width":512}}'
CLAIM=$(curl -s $T/api/worker/claim -H "$J" -d '{"worker":"sh-1","queues":["pictures"],"wait":"20s"}')
LEASE=$(echo "$CLAIM" | sed 's/.*"lease":"\([^"]*\)".*/\1/')
curl -s $T/api/worker/complete -H "$J" -d "{\"lease\":\"$LEASE\",\"result\":{\"width\":1024}}"

JOB=$(echo "$CLAIM" | sed 's/.*"jobId":"\([^"]*\)".*/\1/')
curl -s "$T/result/poll?jobId=$JOB"
echo
