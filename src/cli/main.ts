#!/usr/bin/env node
// The program. Everything it does stands in run.ts, which tests call without a process.
import { Console } from 'node:console';
import { processIo } from './output.ts';
import { runCli } from './run.ts';

// What is awaited may have nothing that keeps the process alive, like a plugin whose promise never settles: it would end here
// without a word, before its time limit.
const alive = setInterval(() => undefined, 2 ** 30);
// Plugins may use the console; standard output belongs to the command's answer, which other programs read.
globalThis.console = new Console(process.stderr, process.stderr);
process.exitCode = await runCli(process.argv.slice(2), processIo());
clearInterval(alive);
