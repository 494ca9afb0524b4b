// Which of its inputs a configured hint policy reads.
import { errorText, type HintInput } from '../plugin/index.ts';
import type { ParameterFault } from './parameters.ts';
import { absorbPromise, describeValue } from './selection-errors.ts';

/** What a definition says of its inputs. */
export interface DeclaredInputs {
  readonly inputs?: readonly HintInput[];
  inputsWhen?(parameters: unknown): readonly HintInput[];
}

/** The inputs of an instance with these parameters, or what is wrong with the answer. */
export function readInputs(
  declared: DeclaredInputs,
  parameters: unknown,
): { readonly reads: readonly HintInput[]; readonly fault: ParameterFault | null } {
  const { inputs = [] } = declared;
  if (declared.inputsWhen === undefined) return { reads: inputs, fault: null };
  const broken = (what: string) => {
    const fault: ParameterFault = { path: [], anchor: 'key', message: `inputsWhen ${what}` };
    return { reads: inputs, fault };
  };
  try {
    const answer: unknown = declared.inputsWhen(parameters);
    if (Array.isArray(answer) && answer.every((one) => inputs.some((input) => input === one))) {
      return { reads: inputs.filter((input) => answer.includes(input)), fault: null };
    }
    absorbPromise(answer);
    return broken(`must answer some of ${inputs.join(', ')}, got ${describeValue(answer)}`);
  } catch (thrown) {
    return broken(`threw: ${errorText(thrown)}`);
  }
}
