#!/usr/bin/env node
// The program. Everything it does stands in run.ts, which tests call without a process.
import { processIo } from './output.ts';
import { runCli } from './run.ts';

// What is awaited may have nothing that keeps the process alive, like a plugin whose promise never settles: it would end here
// without a word, before its time limit.
const alive = setInterval(() => undefined, 2 ** 30);
process.exitCode = await runCli(process.argv.slice(2), processIo());
clearInterval(alive);
