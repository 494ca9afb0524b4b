// A ROUTER that answers questions for missed batches as engines of either age do, or otherwise as a test says.
import { Router } from 'zeromq';
import { sequenceFrame, sequenceOf } from './zmq-frames.ts';

type Frame = Uint8Array | string;

/** Numbers 2^53 and beyond cannot be written by `sequenceFrame`; the end of an answer is -1. */
const END = new Uint8Array(8).fill(0xff);

/** Frames of a batch and of the end, of engines that send a topic (4) or none (3). */
export const FORMS = {
  4: {
    batch: (sequence: number): Frame[] => ['', 'kv', sequenceFrame(sequence), `batch ${sequence}`],
    end: ['', '', END, ''],
  },
  3: {
    batch: (sequence: number): Frame[] => ['', sequenceFrame(sequence), `batch ${sequence}`],
    end: ['', END, ''],
  },
} as const;

/** An endpoint; `answers` gives the messages for a question. `questions` are the numbers asked for. */
export async function replayEndpoint(answers: (from: number) => readonly (readonly Frame[])[]) {
  const socket = new Router({ linger: 0 });
  await socket.bind('tcp://127.0.0.1:*');
  const questions: (number | string)[] = [];
  const serve = async (): Promise<void> => {
    for await (const [identity, empty, start, ...more] of socket) {
      const from = start === undefined ? null : sequenceOf(start);
      if (identity === undefined || empty?.length !== 0 || from === null || more.length > 0) {
        questions.push('malformed');
        continue;
      }
      questions.push(from);
      for (const answer of answers(from)) await socket.send([identity, ...answer]);
    }
  };
  const served = serve().catch(() => undefined);
  return {
    endpoint: socket.lastEndpoint ?? '',
    questions,
    async close() {
      socket.close();
      await served;
    },
  };
}
