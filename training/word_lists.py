"""Word lists for the rules that make responses: written for this project, English only."""

from __future__ import annotations


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _split_pairs(pairs: str) -> tuple[tuple[str, str], ...]:
    """Read "one/other; next/its other"."""
    found = []
    for pair in " ".join(pairs.split()).split("; "):
        one, _, other = pair.partition("/")
        found.append((one, other))
    return tuple(found)


MONTHS = _split(
    "January February March April May June July August September October November December"
)
WEEKDAYS = _split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")

_TO_TWENTY = _split(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {word: str(number) for number, word in enumerate(_TO_TWENTY, 1)} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "hundred": "100",
}
"""Lower-case number word -> its digits."""

ORDINAL_WORDS = _split(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
)

_COMPOUND_NATIONALITIES = (
    "South Korean",
    "North Korean",
    "South African",
    "Puerto Rican",
    "African-American",
)
NATIONALITIES = frozenset(_COMPOUND_NATIONALITIES) | frozenset(
    _split(
        """
        American British English Scottish Welsh Irish French German Italian Spanish Portuguese Dutch
        Belgian Swiss Austrian Swedish Norwegian Danish Finnish Icelandic Polish Czech Slovak
        Hungarian Romanian Bulgarian Serbian Croatian Slovenian Greek Turkish Russian Ukrainian
        Canadian Mexican Brazilian Argentine Chilean Colombian Peruvian Cuban Jamaican Australian
        Chinese Japanese Korean Indian Pakistani Indonesian Malaysian Filipino Thai Vietnamese
        Iranian Iraqi Israeli Egyptian Nigerian Kenyan Ethiopian Moroccan Algerian European African
        Asian Armenian Georgian Lebanese Syrian Albanian Lithuanian Latvian Estonian Bengali
        Venezuelan Ghanaian
        """
    )
)

_COMPOUND_PLACES = tuple(
    pair[0]
    for pair in _split_pairs(
        """
        United States; United Kingdom; Great Britain; New York; New York City; New Jersey;
        New Mexico; New Hampshire; North Carolina; South Carolina; North Dakota;
        South Dakota; West Virginia; Rhode Island; Los Angeles; San Francisco; San Diego;
        Las Vegas; New Zealand; South Africa; New South Wales; South Korea; North Korea;
        Hong Kong; Northern Ireland; Washington; British Columbia; Nova Scotia;
        Soviet Union
        """
    )
)
PLACES = frozenset(_COMPOUND_PLACES) | frozenset(
    _split(
        """
        England Scotland Wales Ireland France Germany Italy Spain Portugal Netherlands Belgium
        Switzerland Austria Sweden Norway Denmark Finland Iceland Poland Hungary Romania Bulgaria
        Serbia Croatia Greece Turkey Russia Ukraine Canada Mexico Brazil Argentina Chile Colombia
        Peru Cuba Jamaica Australia China Japan Korea India Pakistan Indonesia Malaysia Philippines
        Thailand Vietnam Iran Iraq Israel Egypt Nigeria Kenya Ethiopia Morocco Algeria Europe Africa
        Asia America Alabama Alaska Arizona Arkansas California Colorado Connecticut Delaware
        Florida Georgia Hawaii Idaho Illinois Indiana Iowa Kansas Kentucky Louisiana Maine Maryland
        Massachusetts Michigan Minnesota Mississippi Missouri Montana Nebraska Nevada Ohio Oklahoma
        Oregon Pennsylvania Tennessee Texas Utah Vermont Virginia Wisconsin Wyoming London Paris
        Berlin Rome Madrid Vienna Moscow Tokyo Beijing Dublin Edinburgh Glasgow Manchester Liverpool
        Birmingham Boston Chicago Houston Dallas Detroit Philadelphia Seattle Atlanta Miami Toronto
        Montreal Sydney Melbourne Brisbane Oslo Stockholm Copenhagen Amsterdam Brussels Prague
        Budapest Warsaw Athens Istanbul Cairo Delhi Mumbai Shanghai Queensland Ontario Quebec
        Scandinavia Bavaria Yorkshire Cumbria Brooklyn Manhattan Cornwall Kent Sussex Norfolk
        Tasmania
        """
    )
)

ORGANISATION_WORDS = frozenset(
    _split(
        """
        University College School Company Corporation Inc Records Club Association League Party
        Church Museum Institute Group Orchestra Studios Pictures Entertainment Airlines Army Navy
        Force Council Committee Society Foundation Bank Hospital Team Network Conference Academy
        Agency Union Board Court Press Productions Games Media
        """
    )
)
"""Last words of an organisation's name."""

SENTENCE_STARTERS = frozenset(
    _split(
        """
        The A An In On At By For From Of To With Without After Before During Since Until While When
        Where Which Who Whose What Why How If Though Although Because As And But Or Nor So Yet It
        Its He She His Her Him They Their Them We Our You Your I My This That These Those There Here
        All Both Each Every Some Many Most Several Few Other Another Such One Two Three Four Five
        Six Seven Eight Nine Ten First Second Third Later Then Now Today Also However Despite
        Following Between Among Under Over Through Against About Along Is Are Was Were Has Have Had
        Do Does Did Can Could May Might Will Would Should Not No Yes Only Even Just Once Originally
        Initially Eventually Currently Formerly Founded Based Born Known Named Located Released
        Established According Including Next Last Like Unlike Instead Meanwhile Moreover Furthermore
        Additionally Subsequently Previously Recently Often Sometimes Usually Generally Typically
        Officials Police Researchers People Scientists Experts Users Subject Dear Hi Hello Thank
        Thanks Please Yeah Okay Oh Well Um Uh It's He's She's I'm I've We're They're There's That's
        Don't
        """
    )
)
"""Written large at the head of a sentence or of a title, and part of no name."""

ROLES = _split_pairs(
    """
    father/mother; son/daughter; brother/sister; husband/wife; uncle/nephew;
    actor/director; actress/singer; author/publisher; writer/producer; singer/drummer;
    guitarist/drummer; player/coach; footballer/cricketer; student/teacher;
    president/secretary; chairman/treasurer; captain/goalkeeper; king/prince;
    queen/princess; doctor/nurse; lawyer/judge; employer/employee; buyer/seller;
    owner/tenant; winner/runner-up; founder/investor; politician/journalist; novelist/poet;
    painter/sculptor; scientist/engineer; film/novel; album/single; song/film; book/film;
    magazine/newspaper; city/village; river/lake; company/charity; university/hospital;
    band/choir; comedy/thriller; drama/documentary; series/film; team/stadium; man/woman;
    boy/girl; men/women; patients/doctors; police/firefighters; customer/supplier
    """
)
"""Nouns that can take each other's place in a sentence without its being true any more."""

UNITS = _split_pairs(
    """
    kilometres/miles; kilometers/miles; km/mi; metres/feet; meters/feet;
    centimetres/inches; kilograms/pounds; kg/tonnes; litres/gallons; million/billion;
    thousand/million; hundreds/thousands; minutes/hours; hours/days; days/weeks;
    weeks/months; months/years; years/months; percent/per mille; acres/hectares;
    euros/dollars; dollars/pounds; century/decade; celsius/fahrenheit
    """
)
"""Units and orders of magnitude, each either way."""

ANTONYMS = _split_pairs(
    """
    increase/decrease; increased/decreased; increases/decreases; increasing/decreasing;
    rose/fell; rises/falls; rising/falling; grew/shrank; growing/shrinking; gained/lost;
    raised/lowered; raise/lower; first/last; before/after; earlier/later; early/late;
    north/south; northern/southern; east/west; eastern/western; north-east/south-west;
    northeast/southwest; northwest/southeast; left/right; win/lose; won/lost; wins/loses;
    winning/losing; victory/defeat; success/failure; successful/unsuccessful;
    succeeded/failed; more/fewer; most/least; best/worst; better/worse; all/none;
    always/never; often/rarely; young/old; younger/older; youngest/oldest; new/old;
    newer/older; high/low; higher/lower; highest/lowest; large/small; larger/smaller;
    largest/smallest; big/small; bigger/smaller; biggest/smallest; long/short;
    longer/shorter; longest/shortest; strong/weak; stronger/weaker; fast/slow;
    faster/slower; hot/cold; warm/cool; rich/poor; light/heavy; easy/hard; wide/narrow;
    deep/shallow; above/below; over/under; inside/outside; upper/lower; public/private;
    major/minor; male/female; open/closed; opened/closed; opening/closing; begins/ends;
    began/ended; started/ended; start/end; beginning/end; accepted/rejected;
    agreed/refused; approved/rejected; allowed/forbidden; banned/permitted;
    supported/opposed; supports/opposes; support/oppose; confirmed/denied; admitted/denied;
    includes/excludes; including/excluding; bought/sold; buy/sell; borrowed/lent;
    arrived/departed; joined/left; entered/left; remembered/forgot; found/lost;
    built/destroyed; survived/died in; alive/dead; born/buried; guilty/innocent;
    legal/illegal; safe/dangerous; positive/negative; possible/impossible; likely/unlikely;
    known/unknown; popular/unpopular; common/rare; modern/ancient; temporary/permanent;
    national/local; urban/rural; professional/amateur; fictional/real; former/current;
    formerly/currently; maximum/minimum; majority/minority; profit/loss; cheap/expensive;
    full/empty; same/opposite; several/no; day/night; summer/winter; spring/autumn;
    morning/evening; black/white; red/blue; green/yellow
    """
)
"""Each either way; only pairs that stay grammatical in the same place."""

SYNONYMS = _split_pairs(
    """
    located in/situated in; is known as/is called; was known as/was called; film/movie;
    movie/film; began/started; started/began; was founded in/was established in;
    was established in/was founded in; large/big; approximately/about; such as/like;
    consists of/is made up of; died/passed away; children/kids; purchased/bought;
    bought/purchased; said/stated; told/informed; although/even though; because/since;
    but/yet; during/in the course of; many/a lot of; several/a number of; often/frequently;
    usually/normally; famous/well known; best known/most famous; primarily/mainly;
    mainly/mostly; more than/over; helped/assisted; shows/demonstrates; attempted/tried;
    tried/attempted; ended/finished; appeared in/was seen in; released/put out;
    published/brought out; currently/at present; formerly/previously; previously/earlier;
    worked as/had a job as; served as/acted as; written by/penned by; led by/headed by;
    car/automobile; doctor/physician; company/firm; firm/company; employs/has;
    announced/made public; using/by means of; provides/offers; provide/offer; nearly/almost;
    almost/nearly; whole/entire; entire/whole; area/region; region/area
    """
)
"""A phrase -> another that says the same."""

CONTRACTIONS = _split_pairs(
    """
    is not/isn't; was not/wasn't; are not/aren't; were not/weren't; did not/didn't;
    does not/doesn't; do not/don't; has not/hasn't; have not/haven't; had not/hadn't;
    could not/couldn't; cannot/can't; will not/won't; would not/wouldn't; it is/it's;
    he is/he's; she is/she's; they are/they're
    """
)
"""Written out -> contracted."""

QUANTIFIERS = _split_pairs(
    """
    all/some of; all of/none of; most/few; many/no; several/no; some/no; some/all;
    few/most; every/no; both/neither of; none of/all of; at least/at most;
    at most/at least; more than/fewer than; over/fewer than; fewer than/more than;
    less than/more than; up to/more than; only/not only; half/all;
    one of the/the only one of the
    """
)
"""How many -> how many not."""

MODALITIES = _split_pairs(
    """
    may have/has; might have/has; may/will; might/will; could/will certainly;
    is expected to/is certain to; are expected to/are certain to; plans to/refuses to;
    hopes to/is about to; is said to have/has; is believed to be/is proven to be;
    is likely to/is sure to; should/must never; can/cannot; cannot/can; will/will not;
    would/would never; suspected/proven; alleged/proven; tried to/managed to;
    wants to/does not want to; possibly/certainly; probably/certainly
    """
)
"""What may be -> what is, and the like."""
