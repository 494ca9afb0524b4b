#!/usr/bin/env node
// The program. Everything it does stands in run.ts, which tests call without a process.
import { Console } from 'node:console';
import { processIo } from './output.ts';
import { runCli } from './run.ts';

// Plugins may use the console; standard output belongs to the command's answer, which other programs read.
globalThis.console = new Console(process.stderr, process.stderr);
process.exitCode = await runCli(process.argv.slice(2), processIo());
