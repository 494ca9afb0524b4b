// A chat whose last message the engine is to continue (`continue_final_message`) ends with the text of that message.

/**
 * The rendered chat up to the end of its last message, as Hugging Face's `apply_chat_template` cuts it: with the blanks at the end of
 * the message where the template kept them, without where it trims.
 * @throws Error when the template left the message out.
 */
export function continuedText(rendered: string, message: string): string {
  const trimmed = message.trim();
  const at = rendered.lastIndexOf(trimmed);
  if (at < 0) throw new Error('the last message, which is to be continued, is not in what it renders');
  const kept = message.trimStart();
  const end = rendered.startsWith(kept, at) ? at + kept.length : at + trimmed.length;
  return rendered.slice(0, end);
}
