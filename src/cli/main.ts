#!/usr/bin/env node
// The program. Everything it does stands in run.ts, which tests call without a process.
import { processIo } from './output.ts';
import { runCli } from './run.ts';

process.exitCode = await runCli(process.argv.slice(2), processIo());
