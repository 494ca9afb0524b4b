/** Title of the section. */
export declare const PUBLISHED_TITLE: string;

/** The section of docs/benchmarks.md by the results of the benchmarks; null while one of the two it needs has not been run. */
export declare function publishedSection(
  results: ReadonlyMap<
    string,
    {
      readonly rows: readonly {
        readonly case: string;
        readonly unit: string;
        readonly value: number;
        readonly ratio: number | null;
        readonly against: string | null;
      }[];
    }
  >,
): string | null;
