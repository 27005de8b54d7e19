/**
 * The runtime cannot be asked now: nothing is known of what it runs, and nothing may be concluded from that. Not a
 * failure of any engine.
 */
export class RuntimeUnavailable extends Error {
  override readonly name = "RuntimeUnavailable";
}
