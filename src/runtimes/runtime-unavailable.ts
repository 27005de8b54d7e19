/**
 * The runtime does not answer now: its engines are unknown, and nothing may be concluded from that. Not a failure of
 * any engine.
 */
export class RuntimeUnavailable extends Error {
  override readonly name = "RuntimeUnavailable";
}
