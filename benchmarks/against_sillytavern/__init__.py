"""TavernKit beside a SillyTavern that you have installed: the same chat, turn for turn, and the ratio.

SillyTavern runs as it is, in a browser that is driven by WebDriver; nothing of its code is here. Messages are typed and
sent as a person would. The request that the page then makes to its own server is answered in the page, so that no model
is needed and no reply is paid for; the time from the key press to that request is what SillyTavern needs to build the
prompt.
"""
