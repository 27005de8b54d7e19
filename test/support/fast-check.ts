import * as fc from "fast-check";

const { BERTH_RUNS: asked, BERTH_SEED: seed = asked === undefined ? "1" : "random" } = process.env;

/**
 * The same 150 cases of each property in every run: a run fails by what was changed, not by lot. Rare courses are hunted for
 * by more cases (`BERTH_RUNS=2000 make test`, as `make test-all` does) and with other seeds (`BERTH_SEED=random`, or a number
 * that a failure told; BERTH_RUNS draws others too).
 */
fc.configureGlobal({ numRuns: Number(asked ?? 150), ...(seed === "random" ? {} : { seed: Number(seed) }) });

/** Cases of a costly property: `few`, or ten times as many where BERTH_RUNS asks for thousands. */
export function runs(few: number): number {
  return process.env["BERTH_RUNS"] === undefined ? few : few * 10;
}

export { fc };
