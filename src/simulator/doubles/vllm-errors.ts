// How vLLM's server tells that something is wrong.
import { PointsmanError } from '../../plugin/index.ts';
import { type DoubleFailure, DoubleRefusal } from './double-server.ts';

const TYPES: Readonly<Record<number, string>> = {
  400: 'BadRequestError',
  404: 'NotFoundError',
  500: 'InternalServerError',
  503: 'ServiceUnavailableError',
};

/** An error in vLLM's shape: `code` is the status, `param` the member at fault. */
export function vllmError(status: number, message: string, param: string | null = null): object {
  return { error: { message, type: TYPES[status] ?? 'BadRequestError', param, code: status } };
}

/** A refusal of a request. */
export function refused(message: string, param: string | null = null): DoubleRefusal {
  return new DoubleRefusal(400, vllmError(400, message, param));
}

/** What is told for a failure outside of the checks of a request. */
export function vllmRefusalOf(failure: DoubleFailure): DoubleRefusal {
  switch (failure.kind) {
    case 'no_route':
      return new DoubleRefusal(404, { detail: 'Not Found' });
    case 'wrong_method':
      return new DoubleRefusal(405, { detail: 'Method Not Allowed' }, { allow: failure.allowed.join(', ') });
    case 'too_large':
      return new DoubleRefusal(413, { detail: 'Request Entity Too Large' });
    case 'not_json':
      return refused('the body is not valid JSON');
    case 'thrown': {
      const { thrown } = failure;
      const known = thrown instanceof PointsmanError && thrown.status < 500;
      return known
        ? refused(thrown.message)
        : new DoubleRefusal(500, vllmError(500, 'Internal server error'));
    }
  }
}
