import { expect, it } from 'vitest';
import { type LogFields, NO_LOG } from '../plugin/index.ts';
import { pluginLog } from './plugin-log.ts';

/** What a plugin that no compiler has seen writes. */
function logged(...given: readonly unknown[]): readonly unknown[] {
  const lines: [string, LogFields | undefined][] = [];
  const log = pluginLog({ ...NO_LOG, info: (message, fields) => void lines.push([message, fields]) });
  Reflect.apply(log.info, log, given);
  return lines[0] ?? [];
}

it('a plugin may give text and fields in either order, and no text becomes fields', () => {
  expect(logged('picked', { worker: 1n })).toEqual(['picked', { worker: 1n }]);
  expect(logged({ worker: 1n }, 'picked')).toEqual(['picked', { worker: 1n }]);
  expect(logged('picked')).toEqual(['picked', undefined]);
  expect(logged('picked', 'worker 1')).toEqual(['picked', undefined]);
  expect(logged({ worker: 1n })).toEqual(['a plugin logged fields without a text', { worker: 1n }]);
  expect(logged(new Error('no luck'))).toEqual(['no luck', undefined]);
  expect(logged(new Error('no luck'), 'picked')).toEqual(['picked', { error: 'no luck' }]);
  expect(logged(7, ['a'])).toEqual(['7', undefined]);
  expect(logged()).toEqual(['undefined', undefined]);
});
