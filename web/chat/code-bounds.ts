/** Longer code stays plain: colouring it would stop the page. */
const longest = 20_000;
/** The time that some grammars take grows with the square of a word's length: 50 000 letters would take a quarter of a minute. */
const longWord = /\S{500}/;

/** Whether code is coloured in a time that nobody notices. */
export function isColourable(text: string): boolean {
  return text.length <= longest && !longWord.test(text);
}
