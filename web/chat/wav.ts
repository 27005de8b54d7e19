/** What speech models hear; more would be a larger upload alone. */
const rate = 16_000;
const headerBytes = 44;

/**
 * A recording of the browser as WAV with one channel: speech engines read it without a converter, unlike the WebM that
 * browsers record. Throws where there is no sound in it.
 */
export async function wavOf(recording: Blob): Promise<Blob> {
  let sound: AudioBuffer;
  try {
    // Decoding gives the rate of its context.
    sound = await new OfflineAudioContext(1, 1, rate).decodeAudioData(await recording.arrayBuffer());
  } catch {
    throw new Error("Nothing was recorded. Press Record, speak, then press Stop recording.");
  }
  const channels = Array.from({ length: sound.numberOfChannels }, (_, at) => sound.getChannelData(at));
  const wav = new DataView(new ArrayBuffer(headerBytes + sound.length * 2));
  const text = (at: number, word: string): void => {
    for (let index = 0; index < word.length; index += 1) wav.setUint8(at + index, word.charCodeAt(index));
  };
  text(0, "RIFF");
  wav.setUint32(4, wav.byteLength - 8, true);
  text(8, "WAVEfmt ");
  wav.setUint32(16, 16, true);
  // PCM, one channel.
  wav.setUint16(20, 1, true);
  wav.setUint16(22, 1, true);
  wav.setUint32(24, rate, true);
  wav.setUint32(28, rate * 2, true);
  wav.setUint16(32, 2, true);
  wav.setUint16(34, 16, true);
  text(36, "data");
  wav.setUint32(40, sound.length * 2, true);
  for (let at = 0; at < sound.length; at += 1) {
    const mean = channels.reduce((sum, channel) => sum + (channel[at] ?? 0), 0) / channels.length;
    wav.setInt16(headerBytes + at * 2, Math.round(Math.max(-1, Math.min(1, mean)) * 32_767), true);
  }
  return new Blob([wav.buffer], { type: "audio/wav" });
}
